import { startRedis, type RedisOptions, type RedisServer } from '../servers.ts';

/** The user of the documents, with the smallest permissions that the store needs. */
export const LIMITED_USER = { username: 'limiter', password: 'a-long-secret' } as const;

/** As it stands in docs/redis.md. */
export const LIMITED_USER_ACL =
  'user limiter on >a-long-secret ~spillgate:* resetchannels -@all +eval +evalsha +get +set +del +time +ping +info +select +cluster|slots +asking +role';

/** What a fleet needs beside it, as it stands there too. */
export const FLEET_COMMANDS =
  '+mget +pexpire +hget +hset +hdel +hlen +hexists +hgetall +zadd +zrange +zrem +zremrangebyscore +zremrangebyrank';

/** A server where the store's user may do what the documents ask for, and nothing else. */
export async function startLimited(options: RedisOptions = {}): Promise<RedisServer> {
  return startRedis({ ...options, acl: [LIMITED_USER_ACL] });
}

/** A server's address for that user. */
export function limitedUrl({ url }: RedisServer): string {
  const { username, password } = LIMITED_USER;
  return url.replace('://', `://${username}:${password}@`);
}
