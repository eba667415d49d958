import { type AuditSearch, auditSearch } from "@/features/audit/search";
import { enumParam, textParam } from "@/format/searchParams";

export const TABS = [
  "cells",
  "queue",
  "history",
  "usage",
  "members",
  "storages",
  "settings",
  "audit",
] as const;
export type Tab = (typeof TABS)[number];

export const RANGES = ["6h", "24h", "7d", "30d"] as const;
export type Range = (typeof RANGES)[number];

/** What the address of a virtual cluster holds: the tab, and how each is looked at. */
export interface VcSearch extends AuditSearch {
  tab?: Tab;
  /** Cells drawn over the nodes that they lie on, instead of as the virtual cluster sees them. */
  over?: "nodes";
  range?: Range;
  /** Of the report, as "2026-11". */
  month?: string;
}

export function vcSearch(search: Record<string, unknown>): VcSearch {
  const tab = enumParam(search["tab"], TABS);
  return {
    ...(tab === "audit" ? auditSearch(search) : {}),
    tab,
    over: enumParam(search["over"], ["nodes"] as const),
    range: enumParam(search["range"], RANGES),
    month: monthParam(search["month"]),
  };
}

function monthParam(value: unknown): string | undefined {
  const text = textParam(value);
  return text && /^[12]\d{3}-(0[1-9]|1[0-2])$/.test(text) ? text : undefined;
}
