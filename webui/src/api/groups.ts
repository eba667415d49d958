import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { GroupBody, MemberRole } from "./types";

/** All groups of users; for administrators. */
export const groups = queryOptions({
  queryKey: ["groups"],
  queryFn: () =>
    fetchAllPages((query) => unwrap(client.GET("/api/v1/groups", { params: { query } }))),
});

export function groupMembers(name: string) {
  return queryOptions({
    queryKey: [...groups.queryKey, name, "members"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(client.GET("/api/v1/groups/{name}/members", { params: { path: { name }, query } })),
      ),
  });
}

export function createGroup(body: GroupBody) {
  return unwrap(client.POST("/api/v1/groups", { body }));
}

export function updateGroup(name: string, body: Partial<GroupBody>) {
  return unwrap(client.PATCH("/api/v1/groups/{name}", { params: { path: { name } }, body }));
}

export function deleteGroup(name: string) {
  return unwrap(client.DELETE("/api/v1/groups/{name}", { params: { path: { name } } }));
}

export function addGroupMember(name: string, username: string) {
  const path = { name, username };
  return unwrap(client.PUT("/api/v1/groups/{name}/members/{username}", { params: { path } }));
}

export function removeGroupMember(name: string, username: string) {
  const path = { name, username };
  return unwrap(client.DELETE("/api/v1/groups/{name}/members/{username}", { params: { path } }));
}

/** The groups whose users have a role in a virtual cluster. */
export function groupRoles(vc: string) {
  return queryOptions({
    queryKey: ["virtual-clusters", vc, "groups"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(
          client.GET("/api/v1/virtual-clusters/{name}/groups", {
            params: { path: { name: vc }, query },
          }),
        ),
      ),
  });
}

export function setGroupRole(vc: string, group: string, role: MemberRole, confirm: boolean) {
  return unwrap(
    client.PUT("/api/v1/virtual-clusters/{name}/groups/{group}", {
      params: { path: { name: vc, group } },
      body: { role, confirm },
    }),
  );
}

export function removeGroupRole(vc: string, group: string, confirm: boolean) {
  return unwrap(
    client.DELETE("/api/v1/virtual-clusters/{name}/groups/{group}", {
      params: { path: { name: vc, group }, query: { confirm } },
    }),
  );
}

/** Creates the users of a CSV file, all of it or nothing. */
export function importUsers(csv: string, dryRun: boolean) {
  return unwrap(client.POST("/api/v1/user-imports", { body: { csv, dry_run: dryRun } }));
}
