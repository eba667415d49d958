import type { AuditFilter } from "@/api/audit";
import { dayParam, enumParam, textParam } from "@/format/searchParams";
import { midnight } from "@/format/time";

/** What an address holds of a view of the audit log. `from` and `to` are days, both included, in
 * the time zone of the browser. */
export interface AuditSearch {
  actor?: string;
  action?: string;
  outcome?: "done" | "refused";
  target?: string;
  vc?: string;
  address?: string;
  from?: string;
  to?: string;
  order?: "at";
  cursor?: string;
}

export function auditSearch(search: Record<string, unknown>): AuditSearch {
  return {
    actor: textParam(search["actor"]),
    action: textParam(search["action"]),
    outcome: enumParam(search["outcome"], ["done", "refused"] as const),
    target: textParam(search["target"]),
    vc: textParam(search["vc"]),
    address: textParam(search["address"]),
    from: dayParam(search["from"]),
    to: dayParam(search["to"]),
    order: enumParam(search["order"], ["at"] as const),
    cursor: textParam(search["cursor"]),
  };
}

export function isFiltered(search: AuditSearch): boolean {
  return Object.values({ ...search, order: undefined, cursor: undefined }).some(Boolean);
}

export function toFilter(search: AuditSearch): AuditFilter {
  const filter = {
    actor: search.actor,
    action: search.action,
    outcome: search.outcome,
    target: search.target,
    virtual_cluster: search.vc,
    address: search.address,
    since: search.from ? midnight(search.from, 0) : undefined,
    until: search.to ? midnight(search.to, 1) : undefined,
    ordering: search.order ?? "-at",
    cursor: search.cursor,
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}
