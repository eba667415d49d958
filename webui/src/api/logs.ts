import { client, unwrap } from "./client";
import type { Stream } from "./types";

export interface LogFilter {
  rank?: number;
  /** The job's attempt, from 1. */
  attempt?: number;
  stream?: Stream;
}

export interface LogRange {
  cursor?: number;
  before?: number;
  tail?: number;
  limit?: number;
}

/** A job's merged log, or the part of it that the filter leaves, the lines of a page ordered by time. Raw: places
 * are counted in bytes, and the assembler knows what progress bars wrote over. */
export function readLogs(id: string, filter: LogFilter, range: LogRange, signal?: AbortSignal) {
  const query = { ...filter, ...range, progress: "raw" as const, times: true };
  return unwrap(client.GET("/api/v1/jobs/{id}/logs", { params: { path: { id }, query }, signal }));
}

/** Address of one stream as a plain file, for the browser to save. */
export function rawLogUrl(attempt: string, stream: Stream): string {
  return `/api/v1/attempts/${attempt}/logs/${stream}?raw=1`;
}

export interface LogQuery {
  needle: string;
  regex: boolean;
  anyCase: boolean;
  /** "" from the beginning. */
  cursor: string | null;
  limit: number;
}

/** Lines that match, in order of arrival; `next` goes on where the server stopped. */
export function searchLogs(id: string, filter: LogFilter, asked: LogQuery, signal?: AbortSignal) {
  const { needle, regex, anyCase, cursor, limit } = asked;
  const how = { ...(regex && { regex }), ...(anyCase && { ignore_case: true }) };
  const query = { ...filter, q: needle, limit, ...how, ...(cursor && { cursor }) };
  return unwrap(
    client.GET("/api/v1/jobs/{id}/logs/search", { params: { path: { id }, query }, signal }),
  );
}

/** Address of the whole log, or of the part that the filter leaves, as one file in order. */
export function logDownloadUrl(id: string, filter: LogFilter): string {
  const chosen = Object.entries(filter).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(chosen.map(([name, value]) => [name, String(value)]));
  return `/api/v1/jobs/${id}/logs/download?${query}`;
}
