import css from "./UsageBar.module.css";

interface Props {
  used: number;
  owned: number;
  label: string;
  /** What is used beyond what is owned: wrong, or borrowed as it may be. */
  beyond?: "wrong" | "borrowed";
}

/** Used out of owned. What is used beyond it is hatched. */
export function UsageBar({ used, owned, label, beyond = "wrong" }: Props) {
  const scale = Math.max(owned, used, 1);
  const within = Math.min(used, owned);
  return (
    <span
      className={css.bar}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuenow={used}
      aria-valuemax={scale}
      aria-valuetext={`${used} of ${owned}`}
    >
      <span className={css.used} style={{ width: `${(100 * within) / scale}%` }} />
      <span
        className={css.over}
        data-beyond={beyond}
        style={{ width: `${(100 * (used - within)) / scale}%` }}
      />
    </span>
  );
}
