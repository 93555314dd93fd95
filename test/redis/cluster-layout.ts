import { randomBytes } from 'node:crypto';
import type { Reservation } from './reservation.ts';
import type { Reply } from './resp.ts';

/** One line of `CLUSTER NODES`, which is also the format of the file in which a node keeps what it knows. */
export interface NodeView {
  readonly id: string;
  readonly port: number;
  readonly flags: readonly string[];
  /** `-` for a master. */
  readonly masterId: string;
  readonly epoch: number;
  readonly connected: boolean;
  /** Ranges like `0-5460`, single slots, and slots on the move like `[93->-…]`. */
  readonly slots: readonly string[];
}

export interface Member {
  readonly id: string;
  readonly reservation: Reservation;
  /** Which third of the slots it serves. */
  readonly part: number;
}

/** The first three members are to be the masters, the others their replicas. */
export interface Layout {
  readonly members: readonly Member[];
  /** The identities of masters that never existed: see `formCluster`. */
  readonly former: readonly string[];
}

const MASTERS = 3;
const SLOTS = 16_384;
/** Nothing listens on it, so that connections are refused at once. */
const CLOSED_PORT = 1;

export function planCluster(reservations: readonly Reservation[]): Layout {
  return {
    members: reservations.map((reservation, index) => ({ id: newId(), reservation, part: index % MASTERS })),
    former: Array.from({ length: MASTERS }, newId),
  };
}

/** What `self` believes when it starts: all members are replicas of former masters, which serve all slots. */
export function nodesFile(self: Member, { members, former }: Layout): string {
  const lines = [
    ...former.map(
      (id, part) => `${id} ${address(CLOSED_PORT)} master - 0 0 ${part + 1} connected ${slotsOf(part)}`,
    ),
    ...members.map(({ id, part, reservation }) => {
      const flags = id === self.id ? 'myself,slave' : 'slave';
      const { port, busPort } = reservation;
      return `${id} ${address(port, busPort)} ${flags} ${former[part]} 0 0 ${part + 1} connected`;
    }),
    `vars currentEpoch ${MASTERS} lastVoteEpoch 0`,
  ];
  return `${lines.join('\n')}\n`;
}

export function parseNodes(reply: Reply): readonly NodeView[] {
  if (typeof reply !== 'string') throw new TypeError('CLUSTER NODES answers a string');
  const lines = reply.split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const [id = '', at = '', flags = '', masterId = '', , , epoch, link, ...slots] = line.split(' ');
    return {
      id,
      port: Number(/:(\d+)@/.exec(at)?.[1]),
      flags: flags.split(','),
      masterId,
      epoch: Number(epoch),
      connected: link === 'connected',
      slots,
    };
  });
}

/** True when a node knows the members and nobody else, each in its place and reachable. */
export function isComplete(views: readonly NodeView[], { members }: Layout): boolean {
  const masters = views.filter(({ flags }) => flags.includes('master'));
  return (
    views.length === members.length &&
    // Two masters that took over at the same time resolve their equal epochs a moment later.
    new Set(masters.map(({ epoch }) => epoch)).size === MASTERS &&
    members.every(({ id, part }, index) => {
      const view = views.find((candidate) => candidate.id === id);
      const masterId = index < MASTERS ? '-' : members[part]?.id;
      const slots = index < MASTERS ? slotsOf(part) : '';
      return view?.connected === true && view.masterId === masterId && view.slots.join(' ') === slots;
    })
  );
}

export function servesSlot({ slots }: NodeView, slot: number): boolean {
  return slots.some((range) => {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(range) ?? [];
    return Number(first) <= slot && slot <= Number(last);
  });
}

function slotsOf(part: number): string {
  const boundary = (index: number) => Math.round((index * SLOTS) / MASTERS);
  return `${boundary(part)}-${boundary(part + 1) - 1}`;
}

function address(port: number, busPort: number = port): string {
  return `127.0.0.1:${port}@${busPort}`;
}

function newId(): string {
  return randomBytes(20).toString('hex');
}
