import type { TemplateFilter } from "@/api/templates";
import { enumParam, textParam } from "@/format/searchParams";

export const ORDERS = ["-stars", "-created_at", "name"] as const;
export type Order = (typeof ORDERS)[number];

/** What the address of the list of templates holds. */
export interface TemplatesSearch {
  q?: string;
  whose?: "mine" | "starred";
  order?: Order;
  cursor?: string;
}

export function templatesSearch(search: Record<string, unknown>): TemplatesSearch {
  return {
    q: textParam(search["q"]),
    whose: enumParam(search["whose"], ["mine", "starred"] as const),
    order: enumParam(search["order"], ORDERS),
    cursor: textParam(search["cursor"]),
  };
}

export function toFilter({ q, whose, order, cursor }: TemplatesSearch): TemplateFilter {
  return {
    ...(q && { search: q }),
    ...(whose && { [whose]: true }),
    ordering: order ?? "-stars",
    ...(cursor && { cursor }),
  };
}
