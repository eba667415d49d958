import { Button, Modal } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { me, sessionEnded } from "@/api/session";
import type { Me } from "@/api/types";
import { live } from "@/live/live";
import { LoginFields } from "@/pages/login/LoginFields";
import css from "./SessionEnded.module.css";

/** Logs in over the page: what stands on it, and what was typed, stays. */
export function SessionEnded({ user }: { user: Me }) {
  const queries = useQueryClient();
  const navigate = useNavigate();

  async function enter(entered: Me) {
    queries.setQueryData(sessionEnded.queryKey, false);
    queries.setQueryData(me.queryKey, entered);
    live.hurry();
    if (entered.username === user.username) return queries.invalidateQueries();
    // Somebody else: nothing of the page is theirs.
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== me.queryKey[0] });
    return navigate({ to: "/jobs" });
  }

  async function leave() {
    queries.clear();
    await navigate({ to: "/login" });
  }

  return (
    <Modal
      opened
      onClose={() => undefined}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      title="Your session has ended"
      size={380}
      centered
    >
      <p className={css.about}>Log in again to go on where you are. Nothing on the page is lost.</p>
      <LoginFields username={user.username} onEntered={enter} />
      <Button variant="subtle" color="gray" fullWidth mt={8} onClick={() => void leave()}>
        Leave this page
      </Button>
    </Modal>
  );
}
