import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { errorMessage, isApiError } from "@/api/errors";
import css from "./EmptyState.module.css";

interface Props {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  tone?: "calm" | "bad";
  /** It stands for the whole page: its title is that of the page. */
  page?: boolean;
}

/** What a page shows instead of content: nothing there, or something went wrong. Always with a
 * sentence, and where there is one, a way out. */
export function EmptyState({ title, children, action, tone = "calm", page }: Props) {
  const Title = page ? "h1" : "h2";
  return (
    <div className={css.blank} role={tone === "bad" ? "alert" : undefined}>
      <Honeycomb tone={tone} />
      <Title className={css.title}>{title}</Title>
      {children ? <p className={css.text}>{children}</p> : null}
      {action ? <div className={css.action}>{action}</div> : null}
    </div>
  );
}

interface ErrorStateProps {
  error: unknown;
  what: string;
  retry?: () => void;
  /** Of a list in pages, where the address names one of them: it may be an old one. */
  onFirstPage?: (() => void) | undefined;
  /** Where to go instead of something that does not exist. */
  way?: ReactNode;
  page?: boolean;
}

/** A request that failed, with its own words. */
export function ErrorState({ error, what, retry, onFirstPage, way, page }: ErrorStateProps) {
  const missing = isApiError(error, 404);
  if (missing && onFirstPage) {
    return (
      <EmptyState
        tone="bad"
        page={page}
        title="There is no such page of the list"
        action={<FirstPageButton onClick={onFirstPage} />}
      >
        This address of a page of the {what} is no longer valid, or was cut off.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      tone="bad"
      page={page}
      title={missing ? `No such ${what}` : `The ${what} could not be read`}
      action={
        retry && !missing ? (
          <Button variant="default" onClick={retry}>
            Try again
          </Button>
        ) : (
          way
        )
      }
    >
      {missing
        ? "It was removed, or it belongs to a virtual cluster you are not in."
        : errorMessage(error)}
    </EmptyState>
  );
}

/** In place of a page of a list that has no rows any more. */
export function EmptyPage({ onFirstPage }: { onFirstPage: () => void }) {
  return (
    <EmptyState title="This page is empty" action={<FirstPageButton onClick={onFirstPage} />}>
      The list has become shorter since you were led here.
    </EmptyState>
  );
}

function FirstPageButton({ onClick }: { onClick: () => void }) {
  return (
    <Button variant="default" onClick={onClick}>
      Go to the first page
    </Button>
  );
}

function Honeycomb({ tone }: { tone: "calm" | "bad" }) {
  const cell = "m0-11 9.5 5.5v11L0 11l-9.5-5.5v-11Z";
  return (
    <svg className={css.comb} data-tone={tone} viewBox="0 0 64 44" width="76" aria-hidden="true">
      <path d={cell} transform="translate(21 13)" />
      <path d={cell} transform="translate(43 13)" className={css.lit} />
      <path d={cell} transform="translate(32 31)" />
    </svg>
  );
}
