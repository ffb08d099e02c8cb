import { getRouteApi, Link, Outlet } from "@tanstack/react-router";
import { useTexts } from "../i18n";
import { adminMenuOf } from "../pages";
import { Frame } from "../ui/frame";
import { Refused } from "../ui/refused";
import { AccountMenu } from "./account-menu";
import { Finder } from "./finder";

const route = getRouteApi("/inside/admin");

/** The frame of the screens about the whole service, for SuperAdmins. */
export function AdminFrame() {
  const texts = useTexts();
  const { user } = route.useRouteContext();
  return (
    <Frame
      head={user.isSuperAdmin && <Finder user={user} />}
      menu={
        <>
          {adminMenuOf(texts).map(({ to, label }) => (
            <Link key={to} to={to}>
              {label}
            </Link>
          ))}
          <Link to="/">{texts.toFleet}</Link>
        </>
      }
      account={<AccountMenu name={user.name} rights="SuperAdmin" />}
    >
      {user.isSuperAdmin ? <Outlet /> : <Refused rights="SuperAdmin" />}
    </Frame>
  );
}
