"""Open a text document in LibreOffice without a window, or make it, add a line and store it in place.

Runs in the Python that has `uno`: SOFFICE PROFILE DOCUMENT.
"""

import subprocess
import sys
import time
from pathlib import Path

import uno
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException

soffice, profile, document = sys.argv[1:]
url = Path(document).as_uri()
pipe = f"pipe,name=cmsfs{int(time.time())};urp;"
office = subprocess.Popen(
    [soffice, profile, "--headless", "--norestore", "--nologo", f"--accept={pipe}"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
context = uno.getComponentContext()
resolver = context.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", context)
deadline = time.monotonic() + 180
while True:
    try:
        remote = resolver.resolve(f"uno:{pipe}StarOffice.ComponentContext")
        break
    except NoConnectException:
        assert time.monotonic() < deadline, "LibreOffice does not come up"
        time.sleep(0.5)
desktop = remote.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", remote)
hidden = PropertyValue("Hidden", 0, True, 0)
is_new = not Path(document).exists()
opened = desktop.loadComponentFromURL("private:factory/swriter" if is_new else url, "_blank", 0, (hidden,))
opened.Text.setString(opened.Text.getString() + "another line\n")
if is_new:
    opened.storeAsURL(url, ())
else:
    opened.store()
opened.close(True)
desktop.terminate()
office.wait(60)
