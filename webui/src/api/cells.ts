import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { Assignment } from "./types";

export const cells = queryOptions({
  queryKey: ["cells"],
  queryFn: () => unwrap(client.GET("/api/v1/cells")),
});

export const assignment = queryOptions({
  queryKey: ["cells", "assignment"],
  queryFn: () => unwrap(client.GET("/api/v1/cells/assignment")),
});

/** Checks whether an assignment would fit and which jobs it would affect; changes nothing. The result
 * includes the assignment, because the paths of its errors lead into that. */
export const assignmentCheck = (about: Assignment) =>
  queryOptions({
    queryKey: ["cells-check", about],
    queryFn: async ({ signal }) => ({ about, ...(await checkAssignment(about, signal)) }),
    placeholderData: (previous) => previous,
    gcTime: 0,
  });

function checkAssignment(body: Assignment, signal: AbortSignal) {
  return unwrap(client.POST("/api/v1/cells/assignment/check", { body, signal }));
}

/** Saves an assignment. Refused with `revision_stale` when another one was saved since `body.revision`. */
export function saveAssignment(body: Assignment) {
  return unwrap(client.PUT("/api/v1/cells/assignment", { body }));
}

/** Address of the whole configuration as a HiveD file, for the browser to save. */
export const HIVED_FILE_URL = "/api/v1/cells/hived";

const yaml = { headers: { "Content-Type": "text/yaml" }, bodySerializer: String };

/** Checks a HiveD file: returns all that is wrong with it, or what importing it would change. With
 * `assign` its virtual clusters are imported, too. */
export const layoutCheck = (body: string, assign: boolean) =>
  queryOptions({
    queryKey: ["layout-check", body, assign],
    queryFn: ({ signal }) => {
      const params = { query: { assign } };
      return unwrap(client.POST("/api/v1/cells/hived/check", { ...yaml, body, params, signal }));
    },
    gcTime: 0,
  });

export function importLayout(body: string, assign: boolean) {
  return unwrap(
    client.PUT("/api/v1/cells/hived", { ...yaml, body, params: { query: { assign } } }),
  );
}

/** Drops the imported file: the cells are those that the nodes report again. */
export function deleteLayout() {
  return unwrap(client.DELETE("/api/v1/cells/hived"));
}
