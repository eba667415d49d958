import type { Page } from "./types";

const PAGE_SIZE = 500;

/** The opaque cursor in the address of a neighbouring page. */
export function cursorOf(address: string | null): string | undefined {
  if (!address) return undefined;
  return new URL(address, location.origin).searchParams.get("cursor") ?? undefined;
}

/** Reads a collection whole, page after page. */
export async function fetchAllPages<T>(
  read: (page: { limit: number; cursor?: string }) => Promise<Page<T>>,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read({ limit: PAGE_SIZE, ...(cursor && { cursor }) });
    all.push(...page.results);
    cursor = cursorOf(page.next);
  } while (cursor);
  return all;
}
