// NestJS without decorator syntax: what runs the tests and what compiles them need no setting for it this way.
import type { Server } from 'node:http';
import { Controller, Get, Module, type DynamicModule, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { createLimiter, tokenBucket } from '../../../src/index.ts';
import { startServer, type RunningServer } from '../running-server.ts';

export const PLATFORMS = ['Express', 'Fastify'] as const;
export type Platform = (typeof PLATFORMS)[number];

/** Decorates a method, as the compiler does. */
export function decorateMethod(type: Type, name: string, ...decorators: readonly MethodDecorator[]): void {
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, name);
  if (descriptor === undefined) throw new Error(`${type.name} has no method ${name}`);
  for (const decorator of decorators.toReversed()) decorator(type.prototype as object, name, descriptor);
}

/** Decorates a class, as the compiler does. */
export function decorateClass(type: Type, ...decorators: readonly ClassDecorator[]): void {
  for (const decorator of decorators.toReversed()) decorator(type);
}

/** A controller at a path with one route, `GET /path`, which returns text. */
export function textController(path: string, ...decorators: readonly MethodDecorator[]): Type {
  class TextController {
    text(): string {
      return 'hello';
    }
  }
  decorateMethod(TextController, 'text', Get(), ...decorators);
  decorateClass(TextController, Controller(path));
  return TextController;
}

export function moduleOf(metadata: ModuleMetadata): Type {
  // oxlint-disable-next-line typescript/no-extraneous-class -- what makes it a module is its metadata
  class AnyModule {}
  Module(metadata)(AnyModule);
  return AnyModule;
}

/** An application that is ready, not yet listening. */
export async function createApplication(
  platform: Platform,
  metadata: ModuleMetadata,
  configure: (app: INestApplication) => void = () => undefined,
): Promise<Server> {
  const adapter = platform === 'Express' ? new ExpressAdapter() : new FastifyAdapter();
  const app = await NestFactory.create(moduleOf(metadata), adapter, { logger: false, abortOnError: false });
  configure(app);
  await app.init();
  if (adapter instanceof FastifyAdapter) {
    const fastify = adapter.getInstance();
    // Bodies are not read: the suite sends half of one.
    fastify.addContentTypeParser('*', (_request, _body, done) => done(null));
    await fastify.ready();
  }
  return app.getHttpServer() as Server;
}

/** Starts an application for one test. */
export function startApplication(
  platform: Platform,
  metadata: ModuleMetadata & { readonly imports: readonly (DynamicModule | Type)[] },
  configure?: (app: INestApplication) => void,
): Promise<RunningServer> {
  const createServer = () => createApplication(platform, metadata, configure);
  const policies = tokenBucket({ name: 'unused', average: 1, period: '1s' });
  const framework = { name: 'NestJS', createServer, headerOf: () => undefined };
  return startServer(framework, { limiter: createLimiter(), policies });
}
