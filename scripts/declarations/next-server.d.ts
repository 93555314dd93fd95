// What the documents use of Next.js, which is too large (370 MB with what it needs) to be installed for the types of an
// example. tsconfig.base.json puts this file in the place of `next/server`.
export declare class NextRequest extends Request {
  readonly nextUrl: URL;
  readonly cookies: { get(name: string): { readonly value: string } | undefined };
}

export declare class NextResponse extends Response {
  static next(): NextResponse;
}
