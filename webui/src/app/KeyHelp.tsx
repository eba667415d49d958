import { Kbd, Modal } from "@mantine/core";
import css from "./KeyHelp.module.css";

/** Every key that does something by itself, on which page. */
export const KEYS = [
  { keys: ["?"], does: "Show this list" },
  { keys: ["n"], does: "Write a new job" },
  { keys: ["/"], does: "Go to the search field of the page" },
  { keys: ["Ctrl", "Enter"], does: "Check the job file (New job)" },
  { keys: ["Esc"], does: "Close a dialog or a side panel" },
] as const;

export function KeyHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Modal opened={open} onClose={onClose} title="Keyboard shortcuts" size={420} centered>
      <dl className={css.keys}>
        {KEYS.map(({ keys, does }) => (
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
    </Modal>
  );
}
