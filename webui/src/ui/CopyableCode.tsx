import { CopyButton } from "./CopyButton";
import css from "./CopyableCode.module.css";

/** A command or secret to take away. */
export function CopyableCode({ text, label }: { text: string; label: string }) {
  return (
    <div className={css.line}>
      <code className={css.code} aria-label={label} tabIndex={0}>
        {text}
      </code>
      <CopyButton text={text} label={`Copy ${label.toLowerCase()}`} />
    </div>
  );
}
