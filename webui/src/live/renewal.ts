/** Runs `renew` now, or once more after the run that is under way: a run that began before the call
 * may not have seen what the call is about, and one that is cut off again and again never ends. */
export function serially(renew: () => Promise<unknown>): () => void {
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
