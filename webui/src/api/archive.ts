import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";

const PAGE = 50;

export interface ArchiveFilter {
  search?: string | undefined;
  cursor?: string | undefined;
}

/** Jobs in the archive that the reader may see, those submitted last first. */
export const archivedJobs = ({ search, cursor }: ArchiveFilter) =>
  queryOptions({
    queryKey: ["archived-jobs", search, cursor],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE, ...(search && { search }), ...(cursor && { cursor }) };
      return unwrap(client.GET("/api/v1/archived-jobs", { params: { query }, signal }));
    },
    placeholderData: keepPreviousData,
  });

export const archivedJob = (id: string) =>
  queryOptions({
    queryKey: ["archived-job", id],
    queryFn: () => unwrap(client.GET("/api/v1/archived-jobs/{id}", { params: { path: { id } } })),
  });
