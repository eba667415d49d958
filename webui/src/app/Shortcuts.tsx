import { Kbd } from "@mantine/core";
import { useEffect, useEffectEvent } from "react";
import { Dialog } from "@/ui/Dialog";
import { DocumentationLink } from "@/ui/Documentation";
import css from "./Shortcuts.module.css";

/** Every key that does something by itself, on which page. */
export const SHORTCUTS = [
  { keys: ["?"], does: "Show this list" },
  { keys: ["n"], does: "Write a new job" },
  { keys: ["/"], does: "Go to the search field of the page" },
  { keys: ["Tab", "↑", "↓"], does: "In a log: go to the link of a line, then to the next lines" },
  { keys: ["Ctrl", "Enter"], does: "Check the job file (New job)" },
  { keys: ["Ctrl", "Shift", "L"], does: "Leave the terminal of a task" },
  { keys: ["Esc"], does: "Close a dialog or a side panel" },
] as const;

export function ShortcutsDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog opened={open} onClose={onClose} title="Keyboard shortcuts" size={420}>
      <dl className={css.keys}>
        {SHORTCUTS.map(({ keys, does }) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <Kbd key={key}>{key}</Kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p className="dim">Single keys do nothing while you type in a field.</p>
      <DocumentationLink />
    </Dialog>
  );
}

/** Binds single keys for the whole page; in a text field they stay letters. */
export function useShortcuts(keys: Record<string, () => void>): void {
  const press = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event) || document.querySelector("[aria-modal=true]")) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  useEffect(() => {
    const listener = (event: KeyboardEvent) => press(event);
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, []);
}

/** Asks the innermost target: that of the editor lies in a shadow root. */
function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
