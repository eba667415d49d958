import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { fetchAllPages } from "./pagination";

/** Those of a virtual cluster, or the user's own for "". */
export function registryCredentials(vc: string) {
  return queryOptions({
    queryKey: ["registry-credentials", vc],
    queryFn: () =>
      fetchAllPages((query) =>
        unwrap(
          vc
            ? client.GET("/api/v1/virtual-clusters/{name}/registry-credentials", {
                params: { path: { name: vc }, query },
              })
            : client.GET("/api/v1/me/registry-credentials", { params: { query } }),
        ),
      ),
  });
}

export function setRegistryCredential(
  vc: string,
  registry: string,
  body: { username: string; password: string },
) {
  return unwrap(
    vc
      ? client.PUT("/api/v1/virtual-clusters/{name}/registry-credentials/{registry}", {
          params: { path: { name: vc, registry } },
          body,
        })
      : client.PUT("/api/v1/me/registry-credentials/{registry}", {
          params: { path: { registry } },
          body,
        }),
  );
}

export function removeRegistryCredential(vc: string, registry: string) {
  return unwrap(
    vc
      ? client.DELETE("/api/v1/virtual-clusters/{name}/registry-credentials/{registry}", {
          params: { path: { name: vc, registry } },
        })
      : client.DELETE("/api/v1/me/registry-credentials/{registry}", {
          params: { path: { registry } },
        }),
  );
}
