import { client, take } from "./client";
import type { Stream } from "./types";

export interface LogFilter {
  rank?: number;
  stream?: Stream;
}

export interface LogRange {
  cursor?: number;
  before?: number;
  tail?: number;
  limit?: number;
}

/** A job's merged log, or the part of it that the filter leaves, in order of arrival. */
export function readLogs(id: string, filter: LogFilter, range: LogRange, signal?: AbortSignal) {
  const query = { ...filter, ...range };
  return take(client.GET("/api/v1/jobs/{id}/logs", { params: { path: { id }, query }, signal }));
}

/** Address of one stream as a plain file, for the browser to save. */
export function rawLog(attempt: string, stream: Stream): string {
  return `/api/v1/attempts/${attempt}/logs/${stream}?raw=1`;
}

/** Lines that hold `needle`, in order of arrival; `next` goes on where the server stopped. */
export function searchLogs(
  id: string,
  filter: LogFilter,
  needle: string,
  cursor: string,
  limit: number,
) {
  const query = { ...filter, q: needle, limit, ...(cursor && { cursor }) };
  return take(client.GET("/api/v1/jobs/{id}/logs/search", { params: { path: { id }, query } }));
}
