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
