// What may stand in an address after the "?": anybody can type there, so each value is checked.

export function textParam(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function enumParam<T extends string>(value: unknown, allowed: readonly T[]): T | undefined {
  return allowed.find((each) => each === value);
}

/** Filter and order of the table that a page consists of. */
export interface TableSearch {
  q?: string | undefined;
  sort?: string | undefined;
}

export function tableSearch(search: Record<string, unknown>): TableSearch {
  return { q: textParam(search["q"]), sort: textParam(search["sort"]) };
}

/** A day as 2026-11-23. */
export function dayParam(value: unknown): string | undefined {
  const text = textParam(value);
  return text && /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))
    ? text
    : undefined;
}
