import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import type { Assignment } from "./types";

export const cells = queryOptions({
  queryKey: ["cells"],
  queryFn: () => take(client.GET("/api/v1/cells")),
});

export const assignment = queryOptions({
  queryKey: ["cells", "assignment"],
  queryFn: () => take(client.GET("/api/v1/cells/assignment")),
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
  return take(client.POST("/api/v1/cells/assignment/check", { body, signal }));
}

/** Refused with `revision_stale` when somebody else saved since `body.revision`. */
export function saveAssignment(body: Assignment) {
  return take(client.PUT("/api/v1/cells/assignment", { body }));
}

/** Address of the whole configuration as a HiveD file, for the browser to save. */
export const HIVED_FILE = "/api/v1/cells/hived";

const yaml = { headers: { "Content-Type": "text/yaml" }, bodySerializer: String };

/** All that is wrong with a HiveD file, or what importing it would do. With `assign` its virtual
 * clusters are taken, too. */
export const layoutCheck = (body: string, assign: boolean) =>
  queryOptions({
    queryKey: ["layout-check", body, assign],
    queryFn: ({ signal }) => {
      const params = { query: { assign } };
      return take(client.POST("/api/v1/cells/hived/check", { ...yaml, body, params, signal }));
    },
    gcTime: 0,
  });

export function importLayout(body: string, assign: boolean) {
  return take(client.PUT("/api/v1/cells/hived", { ...yaml, body, params: { query: { assign } } }));
}

/** Back to the cells that the nodes report. */
export function deleteLayout() {
  return take(client.DELETE("/api/v1/cells/hived"));
}
