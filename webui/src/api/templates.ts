import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { components } from "./schema";

export type Template = components["schemas"]["Template"];
export type TemplateSummary = components["schemas"]["TemplateSummary"];
export type TemplateBody = components["schemas"]["TemplateBodyRequest"];
export type TemplateChange = components["schemas"]["PatchedTemplateChangeRequest"];

export interface TemplateFilter {
  search?: string;
  mine?: boolean;
  starred?: boolean;
  ordering?: string;
  cursor?: string;
}

const PAGE = 48;

export const templates = (filter: TemplateFilter) =>
  queryOptions({
    queryKey: ["templates", filter],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE, ...filter };
      return unwrap(client.GET("/api/v1/templates", { params: { query }, signal }));
    },
    placeholderData: keepPreviousData,
  });

export const template = (name: string) =>
  queryOptions({
    queryKey: ["template", name],
    queryFn: () => unwrap(client.GET("/api/v1/templates/{name}", { params: { path: { name } } })),
  });

export function publishTemplate(body: TemplateBody) {
  return unwrap(client.POST("/api/v1/templates", { body }));
}

export function changeTemplate(name: string, body: TemplateChange) {
  return unwrap(client.PATCH("/api/v1/templates/{name}", { params: { path: { name } }, body }));
}

export function deleteTemplate(name: string) {
  return unwrap(client.DELETE("/api/v1/templates/{name}", { params: { path: { name } } }));
}

export function starTemplate(name: string, on: boolean) {
  const params = { path: { name } };
  return on
    ? unwrap(client.PUT("/api/v1/templates/{name}/star", { params }))
    : unwrap(client.DELETE("/api/v1/templates/{name}/star", { params }));
}
