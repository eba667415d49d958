import type { KeyboardEvent } from "react";
import { Icon } from "./Icon";
import css from "./NumberStepper.module.css";

interface Props {
  label: string;
  value: number;
  onChange: (value: number) => void;
  max?: number;
  /** The value differs from what is saved. */
  changed?: boolean;
  /** Id of the element that says what is wrong with the value. */
  error?: string;
  id?: string;
}

const DEFAULT_MAX = 1_000_000;

/** A small whole number, to be typed or counted up and down; light enough for tables of them. */
export function NumberStepper({
  label,
  value,
  onChange,
  max = DEFAULT_MAX,
  changed,
  error,
  id,
}: Props) {
  const set = (next: number) => onChange(Math.min(max, Math.max(0, next)));

  function onKeyDown(event: KeyboardEvent) {
    const step = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    set(value + step);
  }

  return (
    <span
      className={css.stepper}
      data-zero={value === 0 || undefined}
      data-changed={changed || undefined}
      data-bad={error ? true : undefined}
    >
      {/* The arrow keys do the same: no need to stop at these on the way through the table. */}
      <button
        type="button"
        tabIndex={-1}
        aria-label={`One less: ${label}`}
        disabled={value <= 0}
        onClick={() => set(value - 1)}
      >
        <Icon name="minus" size={12} />
      </button>
      <input
        id={id}
        role="spinbutton"
        inputMode="numeric"
        autoComplete="off"
        aria-label={label}
        aria-valuenow={value}
        aria-valuemin={0}
        aria-invalid={error ? true : undefined}
        aria-describedby={error}
        value={value}
        onChange={(event) => set(Number(event.currentTarget.value.replace(/\D/g, "")) || 0)}
        onFocus={(event) => event.currentTarget.select()}
        onKeyDown={onKeyDown}
      />
      <button
        type="button"
        tabIndex={-1}
        aria-label={`One more: ${label}`}
        disabled={value >= max}
        onClick={() => set(value + 1)}
      >
        <Icon name="plus" size={12} />
      </button>
    </span>
  );
}
