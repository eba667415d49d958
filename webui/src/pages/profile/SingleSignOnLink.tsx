import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { linkSso, ownSso, unlinkSso } from "@/api/session";
import { ssoRefusal } from "@/features/auth/ssoRefusal";
import { useConfirmed } from "@/features/auth/useConfirmed";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./ApiTokens.module.css";
import page from "./SettingsPage.module.css";

/** The link of the own account to the identity provider, where the server has one. `refused`: the
 * code of why the provider led back without a link. */
export function SingleSignOnLink({ refused }: { refused: string | undefined }) {
  const query = useQuery(ownSso);
  const { data: link } = query;
  const queries = useQueryClient();
  const [guard, dialog] = useConfirmed();
  const linking = useMutation({
    mutationFn: linkSso,
    onSuccess: ({ url }) => location.assign(url),
    onError: (error) => {
      if (!guard(error, () => linking.mutate())) notifyError(error, "The account was not linked");
    },
  });
  const unlinking = useMutation({
    mutationFn: unlinkSso,
    onError: (error) => {
      if (!guard(error, () => unlinking.mutate())) notifyError(error, "The link was not ended");
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ownSso.queryKey }),
  });
  if (isUnread(query)) {
    return (
      <section className={page.block}>
        <h2 className={css.title}>Single sign-on</h2>
        <ReadNote query={query} what="link to the identity provider" />
      </section>
    );
  }
  if (!link?.name) return null;
  return (
    <section className={page.block}>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>Single sign-on</h2>
          <p className="dim">{describe(link.linked, link.can_unlink, link.name)}</p>
        </div>
        {link.linked ? (
          <ConfirmButton
            question={`Unlink ${link.name}?`}
            explanation="It no longer logs you in here, and your other sessions end."
            verb="Unlink"
            busy={unlinking.isPending}
            disabled={!link.can_unlink}
            onConfirm={() => unlinking.mutate()}
          >
            Unlink
          </ConfirmButton>
        ) : (
          <Button variant="default" loading={linking.isPending} onClick={() => linking.mutate()}>
            Link {link.name}
          </Button>
        )}
      </header>
      {refused ? (
        <p className={page.error} role="alert">
          {ssoRefusal(refused)}
        </p>
      ) : null}
      {link.linked_at ? (
        <p className="dim">
          Linked <RelativeTime at={link.linked_at} />
        </p>
      ) : null}
      {dialog}
    </section>
  );
}

function describe(linked: boolean, canUnlink: boolean, name: string): string {
  if (!linked) return `Log in here with your account of ${name}, beside the password.`;
  if (canUnlink) return `Your account of ${name} logs you in here.`;
  return `Your account of ${name} logs you in here; it is your only way to log in.`;
}
