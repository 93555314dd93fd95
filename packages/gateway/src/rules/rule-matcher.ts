import type { RuleMatch } from '../config/schema/rate-limit.ts';
import {
  lenientPath,
  parseLenientPattern,
  parsePathPattern,
  type PathSegment,
} from '../config/path-pattern.ts';
import type { RequestFacts } from './request-facts.ts';

/** A rule that fits a request, and where its path has parameters. */
export interface Matched<Rule> {
  readonly rule: Rule;
  /** The number of the segment by the name of the parameter. */
  readonly parameters: ReadonlyMap<string, number>;
}

/** What only looking at the request can tell, once host and path fit. */
interface RuleCandidate<Rule> extends Matched<Rule> {
  /** The place of the rule in the configuration: the first one that matches decides. */
  readonly order: number;
  readonly methods: ReadonlySet<string> | undefined;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** A place in the tree of paths. The candidates of a list are in the order of the configuration. */
interface PathNode<Rule> {
  readonly literals: Map<string, PathNode<Rule>>;
  /** `{id}` and `*`. */
  anySegment: PathNode<Rule> | undefined;
  /** Rules whose path ends here. */
  readonly here: RuleCandidate<Rule>[];
  /** Rules that match everything from here on: `**`, and rules without a path. */
  readonly below: RuleCandidate<Rule>[];
  /** The least order in this part of the tree: what comes later need not be looked at. */
  first: number;
}

const NO_PARAMETERS: ReadonlyMap<string, number> = new Map();

/**
 * Finds the first rule that matches. Hosts and paths lead straight to the few rules that may fit, so that hundreds of
 * rules cost no more than a few.
 */
export class RuleMatcher<Rule> {
  private readonly exact = new PathTrees<Rule>();
  /** Rules with `lenient_path`, with their paths as `lenientPath` leaves them. */
  private readonly lenient = new PathTrees<Rule>();

  constructor(rules: readonly { readonly match: RuleMatch; readonly rule: Rule }[]) {
    for (const [order, { match, rule }] of rules.entries()) {
      const trees = match.lenient_path === true ? this.lenient : this.exact;
      trees.add(order, match, rule);
    }
  }

  find(request: RequestFacts): Matched<Rule> | undefined {
    const search = new Search<Rule>(request);
    this.exact.visit(search, request.host);
    if (!this.lenient.isEmpty) {
      search.path = lenientPath(request.path);
      this.lenient.visit(search, request.host);
    }
    return search.found;
  }
}

/** Trees of paths by host. */
class PathTrees<Rule> {
  isEmpty = true;
  private readonly everyHost = pathNode<Rule>();
  private readonly hosts = new Map<string, PathNode<Rule>>();
  /** `*.example.com` under `.example.com`. */
  private readonly suffixes = new Map<string, PathNode<Rule>>();

  add(order: number, { host, path, method, header, lenient_path: lenient }: RuleMatch, rule: Rule): void {
    this.isEmpty = false;
    const conditions = {
      order,
      rule,
      methods: method === undefined ? undefined : new Set(method),
      headers: Object.entries(header ?? {}).map(([name, value]) => [name.toLowerCase(), value] as const),
    };
    const parse = lenient === true ? parseLenientPattern : parsePathPattern;
    for (const root of this.rootsOf(host)) {
      if (path === undefined) place(root, root.below, { ...conditions, parameters: NO_PARAMETERS });
      for (const pattern of path ?? []) insert(root, parse(pattern), conditions);
    }
  }

  visit(search: Search<Rule>, host: string): void {
    search.visit(this.everyHost, 1);
    if (this.hosts.size > 0 || this.suffixes.size > 0) this.visitHost(search, host);
  }

  private visitHost(search: Search<Rule>, given: string): void {
    // The same host with the dot of the root: it must not be a way around a rule.
    const host = given.endsWith('.') ? given.slice(0, -1) : given;
    const exact = this.hosts.get(host);
    if (exact !== undefined) search.visit(exact, 1);
    if (this.suffixes.size === 0) return;
    for (let dot = host.indexOf('.', 1); dot !== -1; dot = host.indexOf('.', dot + 1)) {
      const node = this.suffixes.get(host.slice(dot));
      if (node !== undefined) search.visit(node, 1);
    }
  }

  private rootsOf(hosts: readonly string[] | undefined): readonly PathNode<Rule>[] {
    if (hosts === undefined) return [this.everyHost];
    return hosts.map((host) =>
      host.startsWith('*.') ? nodeIn(this.suffixes, host.slice(1)) : nodeIn(this.hosts, host),
    );
  }
}

/** One walk through the trees. What is found may only get better: earlier in the configuration. */
class Search<Rule> {
  found: RuleCandidate<Rule> | undefined;
  /** The path as the trees that are visited spell it. */
  path: string;
  private readonly request: RequestFacts;

  constructor(request: RequestFacts) {
    this.request = request;
    this.path = request.path;
  }

  /** Looks at the node for what follows `start`; past the end of the path there is no segment left. */
  visit(node: PathNode<Rule>, start: number): void {
    if (this.found !== undefined && node.first >= this.found.order) return;
    this.choose(node.below);
    const { path } = this;
    if (start > path.length) {
      this.choose(node.here);
      return;
    }
    if (node.literals.size === 0 && node.anySegment === undefined) return;
    const slash = path.indexOf('/', start);
    const end = slash === -1 ? path.length : slash;
    const literal = node.literals.get(path.slice(start, end));
    if (literal !== undefined) this.visit(literal, end + 1);
    // An empty segment is not a parameter: `/users/` names no user.
    if (node.anySegment !== undefined && end > start) this.visit(node.anySegment, end + 1);
  }

  private choose(candidates: readonly RuleCandidate<Rule>[]): void {
    for (const candidate of candidates) {
      if (this.found !== undefined && candidate.order >= this.found.order) return;
      if (this.fits(candidate)) {
        this.found = candidate;
        return;
      }
    }
  }

  private fits({ methods, headers }: RuleCandidate<Rule>): boolean {
    if (methods !== undefined && !methods.has(this.request.method)) return false;
    for (const [name, value] of headers) {
      const lines = this.request.headers.lines(name);
      if (value === '*' ? lines.length === 0 : !lines.includes(value)) return false;
    }
    return true;
  }
}

function insert<Rule>(
  root: PathNode<Rule>,
  pattern: readonly PathSegment[],
  conditions: Omit<RuleCandidate<Rule>, 'parameters'>,
): void {
  const parameters = new Map<string, number>();
  const candidate = { ...conditions, parameters };
  let node = root;
  for (const [at, segment] of pattern.entries()) {
    node.first = Math.min(node.first, candidate.order);
    if (segment.kind === 'rest') {
      node.below.push(candidate);
      return;
    }
    if (segment.kind === 'parameter') parameters.set(segment.name, at);
    if (segment.kind === 'literal') node = nodeIn(node.literals, segment.text);
    else node = node.anySegment ??= pathNode();
  }
  place(node, node.here, candidate);
}

function place<Rule>(
  node: PathNode<Rule>,
  list: RuleCandidate<Rule>[],
  candidate: RuleCandidate<Rule>,
): void {
  node.first = Math.min(node.first, candidate.order);
  list.push(candidate);
}

function nodeIn<Rule>(nodes: Map<string, PathNode<Rule>>, name: string): PathNode<Rule> {
  const known = nodes.get(name);
  if (known !== undefined) return known;
  const added = pathNode<Rule>();
  nodes.set(name, added);
  return added;
}

function pathNode<Rule>(): PathNode<Rule> {
  return { literals: new Map(), anySegment: undefined, here: [], below: [], first: Infinity };
}

/** One segment of a path; the first has the number 0. Empty where the path is shorter. */
export function segmentAt(path: string, number: number): string {
  let start = 1;
  for (let at = 0; at < number && start !== 0; at += 1) start = path.indexOf('/', start) + 1;
  if (start === 0) return '';
  const end = path.indexOf('/', start);
  return end === -1 ? path.slice(start) : path.slice(start, end);
}
