/** `next` if it is a page of this site: an address elsewhere must not be followed after a login. */
export function localPath(next: string | undefined): string | undefined {
  if (!next || !URL.canParse(next, location.origin)) return undefined;
  const address = new URL(next, location.origin);
  if (address.origin !== location.origin || address.pathname === "/login") return undefined;
  return address.pathname + address.search;
}
