import { queryOptions } from "@tanstack/react-query";
import { client, take } from "./client";
import { allPages } from "./pages";
import type { MemberRole, Visibility } from "./types";

export const virtualClusters = queryOptions({
  queryKey: ["virtual-clusters"],
  queryFn: () =>
    allPages((query) => take(client.GET("/api/v1/virtual-clusters", { params: { query } }))),
});

export const members = (name: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", name, "members"],
    queryFn: () =>
      allPages((query) =>
        take(
          client.GET("/api/v1/virtual-clusters/{name}/members", {
            params: { path: { name }, query },
          }),
        ),
      ),
  });

export function createVirtualCluster(body: { name: string; description: string }) {
  return take(client.POST("/api/v1/virtual-clusters", { body }));
}

export function deleteVirtualCluster(name: string) {
  return take(client.DELETE("/api/v1/virtual-clusters/{name}", { params: { path: { name } } }));
}

/** Replaces all quotas of a virtual cluster at once; a model left out is owned no more. */
export function setQuotas(name: string, quotas: Record<string, number>) {
  return take(
    client.PUT("/api/v1/virtual-clusters/{name}/quotas", {
      params: { path: { name } },
      body: { quotas },
    }),
  );
}

export function setMember(name: string, username: string, role: MemberRole, confirm: boolean) {
  return take(
    client.PUT("/api/v1/virtual-clusters/{name}/members/{username}", {
      params: { path: { name, username } },
      body: { role, confirm },
    }),
  );
}

export function removeMember(name: string, username: string, confirm: boolean) {
  return take(
    client.DELETE("/api/v1/virtual-clusters/{name}/members/{username}", {
      params: { path: { name, username }, query: { confirm } },
    }),
  );
}

/** What its managers may change. */
export function updateVirtualCluster(
  name: string,
  body: { description?: string; job_visibility?: Visibility },
) {
  return take(
    client.PATCH("/api/v1/virtual-clusters/{name}", { params: { path: { name } }, body }),
  );
}

export const limits = (name: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", name, "limits"],
    queryFn: () =>
      take(client.GET("/api/v1/virtual-clusters/{name}/limits", { params: { path: { name } } })),
  });
