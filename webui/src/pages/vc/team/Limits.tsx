import { useQuery } from "@tanstack/react-query";
import { limits } from "@/api/tenancy";
import css from "./Settings.module.css";

/** What jobs of the virtual cluster may use at most; administrators set it. */
export function Limits({ name }: { name: string }) {
  const { data } = useQuery(limits(name));
  if (!data) return null;
  return (
    <section>
      <h2 className={css.title}>Limits</h2>
      <p className={css.about}>Set by administrators.</p>
      <table className={css.limits}>
        <tbody>
          {data.limits.map((limit) => (
            <tr key={limit.name} title={limit.description}>
              <th scope="row">{limit.name.replaceAll("_", " ")}</th>
              <td className="num">
                {limit.unit === "switch"
                  ? limit.value
                    ? "on"
                    : "off"
                  : limit.value.toLocaleString("en")}
              </td>
              <td className="dim">{limit.unit === "switch" ? "" : limit.unit}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
