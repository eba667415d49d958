import { Tooltip } from "@mantine/core";
import { useLiveStatus } from "@/live/live";
import css from "./LiveDot.module.css";

const WORDS = {
  open: "Live: changes show at once",
  connecting: "Connecting for live changes",
  waiting: "Not live: the page asks every few seconds instead",
};

export function LiveDot() {
  const status = useLiveStatus();
  return (
    <Tooltip label={WORDS[status]}>
      <span className={css.dot} data-status={status} role="img" aria-label={WORDS[status]} />
    </Tooltip>
  );
}
