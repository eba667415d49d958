/** Runs `renew` now, or once more after the run that is under way: a run that began before the call
 * may not have seen what the call is about, and one that is cut off again and again never ends. */
export function serialize(renew: () => Promise<unknown>): () => void {
  let running = false;
  let again = false;

  async function run() {
    running = true;
    do {
      again = false;
      await renew().catch(() => undefined);
    } while (again);
    running = false;
  }

  return () => {
    if (running) again = true;
    else void run();
  };
}

/** Calls `action` at once, then at most every `gap` ms while calls keep coming; the last call is
 * never lost. `cancel` forgets a pending one. */
export function throttle(action: () => void, gap: number): (() => void) & { cancel: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;

  function run() {
    again = false;
    action();
    timer = setTimeout(() => {
      timer = undefined;
      if (again) run();
    }, gap);
  }

  const throttled = () => {
    if (timer === undefined) run();
    else again = true;
  };
  throttled.cancel = () => {
    clearTimeout(timer);
    timer = undefined;
    again = false;
  };
  return throttled;
}
