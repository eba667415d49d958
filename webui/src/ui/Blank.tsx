import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { explain, isApiError } from "@/api/errors";
import css from "./Blank.module.css";

interface Props {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  tone?: "calm" | "bad";
}

/** What a page shows instead of content: nothing there, or something went wrong. Always with a
 * sentence, and where there is one, a way out. */
export function Blank({ title, children, action, tone = "calm" }: Props) {
  return (
    <div className={css.blank} role={tone === "bad" ? "alert" : undefined}>
      <Comb tone={tone} />
      <h2 className={css.title}>{title}</h2>
      {children ? <p className={css.text}>{children}</p> : null}
      {action ? <div className={css.action}>{action}</div> : null}
    </div>
  );
}

interface FailureProps {
  error: unknown;
  what: string;
  retry?: () => void;
}

/** A request that failed, with its own words. */
export function Failure({ error, what, retry }: FailureProps) {
  const missing = isApiError(error, 404);
  return (
    <Blank
      tone="bad"
      title={missing ? `No such ${what}` : `The ${what} could not be read`}
      action={
        retry && !missing ? (
          <Button variant="default" onClick={retry}>
            Try again
          </Button>
        ) : null
      }
    >
      {missing
        ? "It was removed, or it belongs to a virtual cluster you are not in."
        : explain(error)}
    </Blank>
  );
}

function Comb({ tone }: { tone: "calm" | "bad" }) {
  const cell = "m0-11 9.5 5.5v11L0 11l-9.5-5.5v-11Z";
  return (
    <svg className={css.comb} data-tone={tone} viewBox="0 0 64 44" width="76" aria-hidden="true">
      <path d={cell} transform="translate(21 13)" />
      <path d={cell} transform="translate(43 13)" className={css.lit} />
      <path d={cell} transform="translate(32 31)" />
    </svg>
  );
}
