import { ActionIcon, Button, Modal } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { deleteUser, resetLink, users } from "@/api/admin";
import type { User } from "@/api/types";
import { CodeLine } from "@/ui/CodeLine";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { tellDone, tellError } from "@/ui/notify";
import css from "./admin.module.css";

/** A new password for somebody who forgot it, and the end of an account. */
export function UserActions({ user, self }: { user: User; self: string }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const link = useMutation({
    mutationFn: () => resetLink(user.username),
    onError: (error) => tellError(error),
  });
  const deletion = useMutation({
    mutationFn: () => deleteUser(user.username),
    onSuccess: () => tellDone(`${user.username} is deleted`),
    onError: (error) => tellError(error, "The user was not deleted"),
    onSettled: () => queries.invalidateQueries({ queryKey: users.queryKey }),
  });
  return (
    <span className={css.actions}>
      <ActionIcon
        size="sm"
        aria-label={`Reset the password of ${user.username}`}
        disabled={!user.is_active}
        loading={link.isPending}
        onClick={() => link.mutate()}
      >
        <Icon name="key" size={14} />
      </ActionIcon>
      <ActionIcon
        size="sm"
        aria-label={`Delete ${user.username}`}
        disabled={user.username === self}
        onClick={() => setAsking(true)}
      >
        <Icon name="trash" size={14} />
      </ActionIcon>
      <Confirm
        open={asking}
        question={`Delete ${user.username}?`}
        explanation="The account ends for good and its jobs are stopped. What is left of them stays, without a name."
        verb="Delete"
        onConfirm={() => deletion.mutate()}
        onClose={() => setAsking(false)}
      />
      <Modal
        opened={link.data !== undefined}
        onClose={() => link.reset()}
        title={`A new password for ${user.username}`}
        size={560}
        centered
      >
        <p>
          Send this address to {user.username}. It works once, within a day, and ends with the next
          login. The present password works until then.
        </p>
        <div className={css.link}>
          <CodeLine text={link.data?.url ?? ""} label="Link" />
        </div>
        <Button mt={14} onClick={() => link.reset()}>
          Done
        </Button>
      </Modal>
    </span>
  );
}
