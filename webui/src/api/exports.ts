const OF_A_PAGE: ReadonlySet<string> = new Set(["cursor", "limit"]);

/** The address of a file with all rows that a list has with this filter; `list`: its path. */
export function fileAddress(list: string, filter: object, format = "csv"): string {
  const query = new URLSearchParams({ format });
  for (const [name, value] of Object.entries(filter) as [string, unknown][]) {
    if (value && !OF_A_PAGE.has(name)) query.set(name, String(value));
  }
  return `/api/v1/${list}?${query.toString()}`;
}
