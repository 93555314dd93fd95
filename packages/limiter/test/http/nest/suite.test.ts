import { All, Controller, type ExecutionContext } from '@nestjs/common';
import { RateLimitModule } from '../../../src/adapters/nest.ts';
import { describeAdapter } from '../describe-adapter.ts';
import { createApplication, decorateMethod, PLATFORMS } from './application.ts';

for (const platform of PLATFORMS) {
  describeAdapter<ExecutionContext>({
    name: `NestJS 11 on ${platform}`,
    createServer(options, serve) {
      class AppController {
        handle(): string {
          return serve();
        }
      }
      decorateMethod(AppController, 'handle', All());
      Controller()(AppController);
      return createApplication(platform, {
        imports: options.map((each) => RateLimitModule.forRoot(each)),
        controllers: [AppController],
      });
    },
    headerOf: (context, name) =>
      context.switchToHttp().getRequest<{ headers: Record<string, string | undefined> }>().headers[name],
  });
}
