// The declarations of @connectrpc/connect use a name of the DOM that Node's types of this version do not declare.
type HeadersInit = ConstructorParameters<typeof Headers>[0];
