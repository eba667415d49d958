import type { LogChunk } from "@/api/types";
import { assemble, Assembler, type Line } from "./assemble";

/** What is held in memory of a log that may be much larger, in characters. */
export const WINDOW_CHARS = 6_000_000;
// Dropping goes below the limit, so that it happens now and then instead of with every chunk.
const KEPT = 0.8;

/** A stretch of consecutive chunks of a log, and its lines. Growing at one end beyond the limit
 * drops chunks from the other. */
export class LogWindow {
  private chunks: LogChunk[] = [];
  private assembler = new Assembler();
  private chars = 0;

  constructor(private readonly limit = WINDOW_CHARS) {}

  get lines(): readonly Line[] {
    return this.assembler.lines;
  }

  /** Cursor of the oldest chunk held. */
  get first(): number | undefined {
    return this.chunks[0]?.cursor;
  }

  /** Cursor of the newest chunk held. */
  get last(): number | undefined {
    return this.chunks.at(-1)?.cursor;
  }

  /** Adds newer chunks; true when older ones were dropped for them. */
  append(newer: LogChunk[]): boolean {
    for (const chunk of newer) this.assembler.push(chunk);
    this.chunks.push(...newer);
    this.chars += size(newer);
    if (this.chars <= this.limit) return false;
    this.drop(() => this.chunks.shift());
    this.assembler.dropBefore(this.first ?? Infinity);
    return true;
  }

  /** Adds older chunks; true when newer ones were dropped for them. */
  prepend(older: LogChunk[]): boolean {
    this.chunks.unshift(...older);
    this.chars += size(older);
    const full = this.chars > this.limit;
    if (full) this.drop(() => this.chunks.pop());
    // Lines that were cut at the old beginning are whole now.
    this.assembler = assemble(this.chunks);
    return full;
  }

  clear(): void {
    this.chunks = [];
    this.assembler = new Assembler();
    this.chars = 0;
  }

  private drop(takeOne: () => LogChunk | undefined): void {
    while (this.chars > this.limit * KEPT && this.chunks.length > 1) {
      this.chars -= takeOne()?.text.length ?? 0;
    }
  }
}

function size(chunks: LogChunk[]): number {
  return chunks.reduce((sum, chunk) => sum + chunk.text.length, 0);
}
