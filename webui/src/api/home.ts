import { queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

export type Home = components["schemas"]["Home"];
export type HomeVc = Home["virtual_clusters"][number];

/** All that the first page shows, in one answer. */
export const home = queryOptions({
  queryKey: ["home"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/home", { signal })),
});
