import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";
import type { ServiceAccountBody, ServiceAccountChange, ServiceTokenScope } from "./types";

export const serviceAccounts = (vc: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", vc, "service-accounts"],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(
          client.GET("/api/v1/virtual-clusters/{name}/service-accounts", {
            params: { path: { name: vc }, query },
          }),
        ),
      ),
  });

export function createServiceAccount(vc: string, body: ServiceAccountBody) {
  return unwrap(
    client.POST("/api/v1/virtual-clusters/{name}/service-accounts", {
      params: { path: { name: vc } },
      body,
    }),
  );
}

export function updateServiceAccount(vc: string, account: string, body: ServiceAccountChange) {
  return unwrap(
    client.PATCH("/api/v1/virtual-clusters/{name}/service-accounts/{account}", {
      params: { path: { name: vc, account } },
      body,
    }),
  );
}

export function deleteServiceAccount(vc: string, account: string) {
  return unwrap(
    client.DELETE("/api/v1/virtual-clusters/{name}/service-accounts/{account}", {
      params: { path: { name: vc, account } },
    }),
  );
}

export const serviceAccountTokens = (vc: string, account: string) =>
  queryOptions({
    queryKey: ["virtual-clusters", vc, "service-accounts", account, "tokens"],
    queryFn: () =>
      unwrap(
        client.GET("/api/v1/virtual-clusters/{name}/service-accounts/{account}/tokens", {
          params: { path: { name: vc, account } },
        }),
      ),
  });

/** The answer holds the token itself, this once only. */
export function createServiceAccountToken(
  vc: string,
  account: string,
  name: string,
  expires_in_s: number,
  scope: ServiceTokenScope,
) {
  return unwrap(
    client.POST("/api/v1/virtual-clusters/{name}/service-accounts/{account}/tokens", {
      params: { path: { name: vc, account } },
      body: { name, expires_in_s, scope },
    }),
  );
}

export function revokeServiceAccountToken(vc: string, account: string, token: string) {
  return unwrap(
    client.DELETE("/api/v1/virtual-clusters/{name}/service-accounts/{account}/tokens/{token}", {
      params: { path: { name: vc, account, token } },
    }),
  );
}
