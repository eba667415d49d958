import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import type { Assignment, AssignmentCheck, Cells } from "./types";

// Until the server's schema tells of these addresses, their shapes are told here.
type Loose = (path: string, init?: object) => Promise<{ data?: unknown }>;
const loose = client as unknown as Record<"GET" | "POST" | "PUT" | "DELETE", Loose>;

export const cells = queryOptions({
  queryKey: ["cells"],
  queryFn: () => take(loose.GET("/api/v1/cells") as Promise<{ data?: Cells }>),
});

export const assignment = queryOptions({
  queryKey: ["cells", "assignment"],
  queryFn: () => take(loose.GET("/api/v1/cells/assignment") as Promise<{ data?: Assignment }>),
});

/** Whether this assignment would fit and whom it would touch; nothing is changed. The answer comes
 * with what was asked, for its errors name places in that. */
export const assignmentCheck = (about: Assignment) =>
  queryOptions({
    queryKey: ["cells-check", about],
    queryFn: async ({ signal }) => ({ about, ...(await checkAssignment(about, signal)) }),
    placeholderData: (previous) => previous,
    gcTime: 0,
  });

function checkAssignment(body: Assignment, signal: AbortSignal) {
  return take(
    loose.POST("/api/v1/cells/assignment/check", { body, signal }) as Promise<{
      data?: AssignmentCheck;
    }>,
  );
}

/** Refused with `revision_stale` when somebody else saved since `body.revision`. */
export function saveAssignment(body: Assignment) {
  return take(
    loose.PUT("/api/v1/cells/assignment", { body }) as Promise<{
      data?: AssignmentCheck & { revision: number };
    }>,
  );
}

/** Address of the whole configuration as a HiveD file, for the browser to save. */
export const HIVED_FILE = "/api/v1/cells/hived";

const yaml = { headers: { "Content-Type": "application/yaml" }, bodySerializer: String };

/** All that is wrong with a HiveD file, or what importing it would do. With `assign` its virtual
 * clusters are taken, too. */
export const layoutCheck = (text: string, assign: boolean) =>
  queryOptions({
    queryKey: ["layout-check", text, assign],
    queryFn: ({ signal }) =>
      take(
        loose.POST("/api/v1/cells/hived/check", {
          ...yaml,
          body: text,
          params: { query: { assign } },
          signal,
        }) as Promise<{ data?: AssignmentCheck }>,
      ),
    gcTime: 0,
  });

export function importLayout(text: string, assign: boolean) {
  return take(
    loose.PUT("/api/v1/cells/hived", { ...yaml, body: text, params: { query: { assign } } }),
  );
}

/** Back to the cells that the nodes report. */
export function deleteLayout() {
  return take(loose.DELETE("/api/v1/cells/hived"));
}
