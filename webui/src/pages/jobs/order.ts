import type { SortingState } from "@tanstack/react-table";

/** The API's "-name" as the table's sorting, and back. */
export function toSorting(order: string): SortingState {
  const desc = order.startsWith("-");
  return [{ id: desc ? order.slice(1) : order, desc }];
}

export function toOrder(sorting: SortingState): string | undefined {
  const [first] = sorting;
  if (!first) return undefined;
  return first.desc ? `-${first.id}` : first.id;
}
