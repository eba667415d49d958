import type { LogChunk } from "@/api/types";
import { assemble, Assembler, type Line } from "./assemble";

/** What is held in memory of a log that may be much larger: about so many characters. */
export const WINDOW_SIZE = 8_000_000;
// Dropping goes below the limit, so that it happens now and then instead of with every chunk.
const KEPT = 0.8;

/** Consecutive pages of a log, and their lines. Growing at one end beyond the limit drops pages from
 * the other. A page is kept or dropped as a whole: its chunks are ordered by the times of their
 * lines, not by their cursors. */
export class LogWindow {
  private pages: LogChunk[][] = [];
  private assembler = new Assembler();
  private held = 0;

  constructor(private readonly limit = WINDOW_SIZE) {}

  get lines(): readonly Line[] {
    return this.assembler.lines;
  }

  /** Cursor of the chunk that arrived first. */
  get first(): number | undefined {
    return cursors(this.pages[0]).reduce(smaller, undefined);
  }

  /** Cursor of the chunk that arrived last. */
  get last(): number | undefined {
    return cursors(this.pages.at(-1)).reduce(larger, undefined);
  }

  /** Adds newer chunks; true when older ones were dropped for them. */
  append(newer: LogChunk[]): boolean {
    for (const chunk of newer) this.assembler.push(chunk);
    if (newer.length > 0) this.pages.push(newer);
    this.held += weigh(newer);
    if (this.held <= this.limit) return false;
    this.drop(() => this.pages.shift());
    this.assembler.dropBefore(this.first ?? Infinity);
    return true;
  }

  /** Adds older chunks; true when newer ones were dropped for them. */
  prepend(older: LogChunk[]): boolean {
    if (older.length > 0) this.pages.unshift(older);
    this.held += weigh(older);
    const full = this.held > this.limit;
    if (full) this.drop(() => this.pages.pop());
    // Lines that were cut at the old beginning are whole now.
    this.assembler = assemble(this.pages.flat());
    return full;
  }

  clear(): void {
    this.pages = [];
    this.assembler = new Assembler();
    this.held = 0;
  }

  private drop(takeOne: () => LogChunk[] | undefined): void {
    while (this.held > this.limit * KEPT && this.pages.length > 1) {
      this.held -= weigh(takeOne() ?? []);
    }
  }
}

const cursors = (page: LogChunk[] = []): number[] => page.map(({ cursor }) => cursor);
const smaller = (a: number | undefined, b: number) => (a === undefined ? b : Math.min(a, b));
const larger = (a: number | undefined, b: number) => (a === undefined ? b : Math.max(a, b));

/** What a line costs beside its characters. */
const LINE_COST = 40;

function weight({ text }: LogChunk): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
  return text.length + lines * LINE_COST;
}

function weigh(chunks: LogChunk[]): number {
  return chunks.reduce((sum, chunk) => sum + weight(chunk), 0);
}
