// A NestJS application: a limit for all routes, one more for the login, none for the health check.
import { Controller, Get, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { createLimiter, slidingWindowLog, tokenBucket } from 'spillgate';
import { Limit, RateLimitModule, SkipLimit } from 'spillgate/nest';

const limiter = createLimiter();
const api = tokenBucket({ name: 'api', average: 100, period: '1h' });
const login = slidingWindowLog({ name: 'login', quota: 2, window: '15m' });

@Controller()
class AccountController {
  @Post('login')
  @Limit(login)
  login(): string {
    return 'welcome';
  }

  @Get('health')
  @SkipLimit()
  health(): string {
    return 'fine';
  }
}

@Module({ imports: [RateLimitModule.forRoot({ limiter, policies: api })], controllers: [AccountController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(0, '127.0.0.1');
for (const path of ['login', 'login', 'login', 'health']) {
  const init = { method: path === 'login' ? 'POST' : 'GET' };
  const { status, headers } = await fetch(`${await app.getUrl()}/${path}`, init);
  console.log(`${path}: ${status}, left: ${headers.get('x-ratelimit-remaining') ?? 'not counted'}`);
}

await app.close();
await limiter.close();
