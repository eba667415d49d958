import type { LogRange } from "@/api/logs";
import type { LogPage } from "@/api/types";
import type { Line } from "./assemble";
import { LogWindow } from "./LogWindow";

export const PAGE_BYTES = 524_288;
/** More than fit in a page: a tail cut by lines would begin inside a chunk, and what is missing of
 * it could not be read backwards. */
const TAIL_LINES = 100_000;
/** So many full pages behind the end, following jumps there instead of reading on. */
const FAR_BEHIND = 4;

export interface LogView {
  lines: readonly Line[];
  /** Nothing came before the first line. */
  atStart: boolean;
  /** The window ends where the log does; new text is added to it. */
  atEnd: boolean;
  /** The log is over, and the window holds its end. */
  complete: boolean;
  busy: "end" | "earlier" | "later" | null;
  error: unknown;
}

type Read = (range: LogRange, signal: AbortSignal) => Promise<LogPage>;

/** Reads a log through a window: its end, what came before, what follows. One request at a time;
 * a jump elsewhere aborts the running one. */
export class LogReader {
  private readonly window: LogWindow;
  private readonly watchers = new Set<() => void>();
  private abort = new AbortController();
  private next = 0;
  private rung = false;
  private catchingUp = false;
  view: LogView = {
    lines: [],
    atStart: false,
    atEnd: false,
    complete: false,
    busy: null,
    error: null,
  };

  constructor(
    private readonly read: Read,
    limit?: number,
  ) {
    this.window = new LogWindow(limit);
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  getView = (): LogView => this.view;

  /** Shows the newest lines, and from then on what comes. What is shown stays until then. */
  async toEnd(): Promise<void> {
    this.abort.abort();
    this.set({ busy: null });
    await this.step("end", { tail: TAIL_LINES, limit: PAGE_BYTES }, (page) => {
      this.window.clear();
      this.view = { ...this.view, lines: [], atStart: !page.more, atEnd: true };
      this.add(page);
    });
  }

  /** Shows the log from its first line. */
  toStart(): Promise<void> {
    return this.jump(0, true);
  }

  /** Shows the chunk with this cursor and what follows it. */
  toCursor(cursor: number): Promise<void> {
    return this.jump(cursor - 1, false);
  }

  /** Adds what came before the first line. */
  async earlier(): Promise<void> {
    const before = this.window.first;
    if (this.view.busy || this.view.atStart || before === undefined) return;
    await this.step("earlier", { before, limit: PAGE_BYTES }, (page) => {
      const cut = this.window.prepend(page.chunks);
      this.set({
        lines: [...this.window.lines],
        atStart: !page.more,
        ...(cut && { atEnd: false, complete: false }),
      });
      if (cut) this.next = this.window.last ?? 0;
    });
  }

  /** Adds what follows the last line. */
  async later(): Promise<void> {
    if (this.view.busy || this.view.atEnd) return;
    await this.step("later", { cursor: this.next, limit: PAGE_BYTES }, (page) => this.add(page));
  }

  /** Notes that the log may have grown. While its end is not shown there is nothing to do. One
   * catch-up at a time: a notification during a request makes it read once more afterwards. */
  async poke(): Promise<void> {
    if (this.view.busy || this.catchingUp) {
      this.rung = true;
      return;
    }
    if (!this.view.atEnd || this.view.complete) return;
    this.catchingUp = true;
    await this.catchUp();
    this.catchingUp = false;
    this.answerRing();
  }

  close(): void {
    this.abort.abort();
  }

  private async catchUp(): Promise<void> {
    for (let pages = 0; pages < FAR_BEHIND; pages += 1) {
      if (this.view.busy) {
        this.rung = true;
        return;
      }
      let full = false;
      await this.step("later", { cursor: this.next, limit: PAGE_BYTES }, (page) => {
        this.add(page);
        full = page.more;
      });
      if (!full || this.view.error) return;
    }
    await this.toEnd();
  }

  private async jump(cursor: number, atStart: boolean): Promise<void> {
    this.abort.abort();
    this.window.clear();
    this.set({ lines: [], atStart, atEnd: false, complete: false, busy: null });
    await this.step("end", { cursor, limit: PAGE_BYTES }, (page) => this.add(page));
  }

  private add(page: LogPage): void {
    this.next = page.next;
    const dropped = this.window.append(page.chunks);
    this.set({
      // A new array: the window changes its own in place.
      lines: page.chunks.length > 0 ? [...this.window.lines] : this.view.lines,
      complete: page.complete,
      atEnd: this.view.atEnd || !page.more,
      ...(dropped && { atStart: false }),
    });
  }

  private async step(
    busy: NonNullable<LogView["busy"]>,
    range: LogRange,
    take: (page: LogPage) => void,
  ): Promise<void> {
    const { signal } = (this.abort = new AbortController());
    this.set({ busy });
    try {
      const page = await this.read(range, signal);
      if (signal.aborted) return;
      take(page);
      this.set({ busy: null, error: null });
    } catch (error) {
      if (signal.aborted) return;
      this.set({ busy: null, error });
    }
    this.answerRing();
  }

  private answerRing(): void {
    if (!this.rung || this.catchingUp) return;
    this.rung = false;
    void this.poke();
  }

  private set(part: Partial<LogView>): void {
    this.view = { ...this.view, ...part };
    for (const watcher of this.watchers) watcher();
  }
}
