import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fileAddress } from "./exports";

export interface AuditFilter {
  actor?: string;
  action?: string;
  outcome?: "done" | "refused";
  target?: string;
  target_type?: string;
  virtual_cluster?: string;
  address?: string;
  since?: string;
  until?: string;
  ordering?: "at" | "-at";
  cursor?: string;
  limit?: number;
}

const PAGE = 50;

export const auditEntries = (filter: AuditFilter) =>
  queryOptions({
    queryKey: ["audit", filter],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE, ...filter };
      return unwrap(client.GET("/api/v1/audit", { params: { query }, signal }));
    },
    placeholderData: (previous) => previous,
  });

export const auditActions = queryOptions({
  queryKey: ["audit-actions"],
  queryFn: async () => (await unwrap(client.GET("/api/v1/audit/actions"))).actions,
  staleTime: Infinity,
});

/** The address of a file with all entries that the filter has. */
export function exportAddress(filter: AuditFilter, format: "csv" | "jsonl"): string {
  return fileAddress("audit/export", { ...filter, ordering: undefined }, format);
}
