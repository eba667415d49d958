import { ActionIcon } from "@mantine/core";
import { Icon } from "@/ui/Icon";
import { Logo } from "@/ui/Logo";
import css from "./TopBar.module.css";

/** On small screens only: brings the sidebar in. */
export function TopBar({ open, onToggle }: { open: boolean; onToggle: () => void }) {
  return (
    <div className={css.bar}>
      <ActionIcon aria-label="Menu" aria-expanded={open} onClick={onToggle}>
        <Icon name="menu" />
      </ActionIcon>
      <Logo size={18} />
      <span className={css.name}>Skep</span>
    </div>
  );
}
