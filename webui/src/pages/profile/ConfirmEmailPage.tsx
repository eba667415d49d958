import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { errorMessage } from "@/api/errors";
import { confirmEmail, me } from "@/api/session";
import { PageHeader } from "@/ui/PageHeader";
import { notifySuccess } from "@/ui/notify";
import css from "./SettingsPage.module.css";

/** The page of the link that was sent to an address which a user wants to have. */
export function ConfirmEmailPage() {
  const { token } = useSearch({ from: "/shell/confirm-email" });
  const queries = useQueryClient();
  const navigate = useNavigate();
  const confirming = useMutation({
    mutationFn: () => confirmEmail(token),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: me.queryKey });
      notifySuccess("Your e-mail address is confirmed");
      await navigate({ to: "/settings/$section", params: { section: "profile" } });
    },
  });
  return (
    <>
      <PageHeader title="E-mail address" />
      <div className={css.page}>
        <section className={css.block}>
          <div className={css.form}>
            <p>
              This link shows that you read e-mails at the address it was sent to. Notifications go
              there from now on, and a link to set a new password if you forget yours.
            </p>
            {confirming.error ? (
              <p className={css.error} role="alert">
                {errorMessage(confirming.error)}
              </p>
            ) : null}
            <div>
              <Button loading={confirming.isPending} onClick={() => confirming.mutate()}>
                Confirm the address
              </Button>
            </div>
          </div>
        </section>
      </div>
    </>
  );
}
