import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { me } from "@/api/session";
import { PageHeader } from "@/ui/PageHeader";
import { Fact, Facts } from "@/ui/Facts";
import { Password } from "./Password";
import { Tokens } from "./Tokens";
import css from "./ProfilePage.module.css";

export function ProfilePage() {
  const { data: user } = useQuery(me);
  if (!user) return null;
  return (
    <>
      <PageHeader title="Profile" />
      <div className={css.page}>
        <section className={css.block}>
          <Facts>
            <Fact name="User name">{user.username}</Fact>
            <Fact name="E-mail">{user.email || "–"}</Fact>
            <Fact name="Rights">{user.is_admin ? "administrator" : "user"}</Fact>
            <Fact name="Virtual clusters">
              {user.virtual_clusters.length === 0 ? "none" : null}
              {user.virtual_clusters.map(({ name, role }, number) => (
                <span key={name}>
                  {number > 0 ? ", " : ""}
                  <Link to="/jobs" search={{ vc: name }} className="link">
                    {name}
                  </Link>
                  {role === "manager" ? <span className="dim"> (manager)</span> : null}
                </span>
              ))}
            </Fact>
          </Facts>
        </section>
        <section className={css.block}>
          <Tokens />
        </section>
        <section className={css.block}>
          <Password />
        </section>
      </div>
    </>
  );
}
