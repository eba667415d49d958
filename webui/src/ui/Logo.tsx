import css from "./Logo.module.css";

/** A skep is a woven beehive: a cell with its bands of straw. */
export function Logo({ size = 22 }: { size?: number }) {
  return (
    <svg className={css.logo} width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <path d="M16 1.5 28.6 8.75v14.5L16 30.5 3.4 23.25V8.75Z" className={css.cell} />
      <path d="M9 12.5h14M9 17.5h14M11.5 22.5h9" className={css.bands} />
    </svg>
  );
}
