import { Button } from "@mantine/core";
import { cursorOf } from "@/api/pagination";
import type { Page } from "@/api/types";
import { Icon } from "./Icon";
import css from "./Pagination.module.css";

interface Props {
  page: Page<unknown>;
  onGo: (cursor: string | undefined) => void;
}

/** Pages are found by cursor: there is a next and a previous one, and no number of pages. */
export function Pagination({ page, onGo }: Props) {
  if (!page.next && !page.previous) return null;
  return (
    <nav className={css.pager} aria-label="Pages">
      <Button
        variant="subtle"
        color="gray"
        disabled={!page.previous}
        leftSection={<Icon name="left" size={14} />}
        onClick={() => onGo(cursorOf(page.previous))}
      >
        Previous
      </Button>
      <Button
        variant="subtle"
        color="gray"
        disabled={!page.next}
        rightSection={<Icon name="right" size={14} />}
        onClick={() => onGo(cursorOf(page.next))}
      >
        Next
      </Button>
    </nav>
  );
}
